// The client with client-go and protobuf, for the comparison.
//
//	client-go follow URL PODS VERSION KEY   follows pods as `comparison follow` does
//	client-go convert                       converts a watch from JSON lines to frames of protobuf
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 6 && os.Args[1] == "follow":
		err = follow(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	case len(os.Args) == 2 && os.Args[1] == "convert":
		err = convert(os.Stdin, os.Stdout)
	default:
		err = errors.New("expected `follow URL PODS VERSION KEY` or `convert`")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}

func follow(url, pods, version, key string) error {
	content := rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: url, ContentConfig: content})
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	store, stop := informer.GetStore(), make(chan struct{})
	lines := lines()
	pause("started", lines)
	factory.Start(stop)
	if !cache.WaitForCacheSync(stop, informer.HasSynced) {
		return errors.New("stopped before it was synced")
	}
	if held := strconv.Itoa(len(store.ListKeys())); held != pods {
		return fmt.Errorf("the store has %s pods, not %s", held, pods)
	}
	pause("synced", lines)
	for {
		object, _, err := store.GetByKey(key)
		if err != nil {
			return err
		}
		if pod, is := object.(*corev1.Pod); is && pod.ResourceVersion == version {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	pause("followed", lines)
	return nil
}

// lines ends the process when standard input ends: when the comparison is over, or was interrupted.
func lines() <-chan string {
	lines := make(chan string)
	go func() {
		for scanner := bufio.NewScanner(os.Stdin); scanner.Scan(); {
			lines <- scanner.Text()
		}
		os.Exit(0)
	}()
	return lines
}

// pause ends a stage, and begins the next when a line comes in.
func pause(stage string, lines <-chan string) {
	print := func() {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			panic(err)
		}
		fmt.Println(stage, (usage.Utime.Nano()+usage.Stime.Nano())/1000)
	}
	print()
	<-lines
	print()
}

// convert writes events as an API server does: each in a frame, around its object in an envelope.
func convert(in io.Reader, out io.Writer) error {
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	buffered := bufio.NewWriter(out)
	frames := protobuf.LengthDelimitedFramer.NewFrameWriter(buffered)
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return buffered.Flush()
		} else if err != nil {
			return err
		}
		event := struct {
			Type   string
			Object *corev1.Pod
		}{}
		if err := json.Unmarshal(line, &event); err != nil {
			return err
		}
		object, err := runtime.Encode(serializer, event.Object)
		if err != nil {
			return err
		}
		frame, err := (&metav1.WatchEvent{Type: event.Type, Object: runtime.RawExtension{Raw: object}}).Marshal()
		if err != nil {
			return err
		}
		if _, err := frames.Write(frame); err != nil {
			return err
		}
	}
}
