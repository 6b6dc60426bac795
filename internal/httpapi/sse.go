package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// keepAlive is how often a silent stream shows that it lives: proxies and
// clients end connections on which nothing comes for half a minute.
const keepAlive = 10 * time.Second

// Event is one server-sent event; Data is written as JSON.
type Event struct {
	Name string
	Data any
}

// stream gives the body of a stream of events that produce sends until it
// returns. It has sent a comment before the first event. Reading from the body
// is what runs it; closing the body ends ctx of produce and waits for it.
func stream(ctx context.Context, produce func(ctx context.Context, send func(Event) error) error) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	done := make(chan struct{})
	events := make(chan Event)
	go func() {
		defer close(done)
		var err error
		defer func() { w.CloseWithError(err) }()
		ended := make(chan error, 1)
		go func() {
			ended <- produce(ctx, func(e Event) error {
				select {
				case events <- e:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
		}()
		defer func() { cancel(); drain(ended, &err) }()
		alive := time.NewTicker(keepAlive)
		defer alive.Stop()
		if _, err = io.WriteString(w, ":\n\n"); err != nil {
			return
		}
		for {
			select {
			case e := <-events:
				if err = writeEvent(w, e); err != nil {
					return
				}
			case <-alive.C:
				if _, err = io.WriteString(w, ":\n\n"); err != nil {
					return
				}
			case err = <-ended:
				ended <- err
				return
			}
		}
	}()
	return &streamBody{r, cancel, done}
}

// drain waits for produce; what it says is the end of the stream only where
// nothing else was.
func drain(ended chan error, err *error) {
	if e := <-ended; *err == nil {
		*err = e
	}
}

type streamBody struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

func (b *streamBody) Close() error {
	b.cancel()
	err := b.PipeReader.Close()
	<-b.done
	return err
}

func writeEvent(w io.Writer, e Event) error {
	data, err := json.Marshal(e.Data)
	if err != nil {
		return fmt.Errorf("write event %s: %w", e.Name, err)
	}
	// JSON has no line ends of its own.
	_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Name, data)
	return err
}
