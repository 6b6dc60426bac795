package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// MaxEvent bounds one event of a stream, in bytes.
const MaxEvent = 16 << 20

// Event is one server-sent event. Data is JSON.
type Event struct {
	Name string
	Data []byte
}

// Events reads a stream of server-sent events to its end: the body of an answer
// whose Content-Type is text/event-stream. What is not an event, such as the
// comments that keep a connection alive, is left out. The last pair has the
// error that ended the stream, if it was not its proper end. The caller closes
// the body.
func Events(body io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		lines := bufio.NewScanner(body)
		lines.Buffer(make([]byte, 0, 4096), MaxEvent)
		var e Event
		var data [][]byte
		size := 0
		for lines.Scan() {
			line := bytes.TrimSuffix(lines.Bytes(), []byte("\r"))
			if len(line) == 0 {
				if len(data) > 0 {
					e.Data = bytes.Join(data, []byte("\n"))
					if !yield(e, nil) {
						return
					}
				}
				e, data, size = Event{}, nil, 0
				continue
			}
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
			case "event":
				e.Name = string(value)
			case "data":
				if size += len(value) + 1; size > MaxEvent {
					yield(Event{}, errTooLarge)
					return
				}
				data = append(data, bytes.Clone(value))
			}
		}
		if err := lines.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				err = errTooLarge
			}
			yield(Event{}, err)
		}
	}
}

var errTooLarge = fmt.Errorf("an event is larger than %d bytes", MaxEvent)
