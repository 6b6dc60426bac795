package qemu

import (
	"sync"
	"time"
)

// readTSC reads the processor's time stamp counter.
func readTSC() uint64

// hostTSC gives how fast the counter runs, in kHz, measured once. A guest under
// emulation sees the host's counter but finds no other clock to measure it with:
// without being told it would try for ever.
var hostTSC = sync.OnceValue(func() uint64 {
	const span = 100 * time.Millisecond
	beganTSC, began := readTSC(), time.Now()
	<-time.After(span)
	ended, took := readTSC(), time.Since(began)
	return (ended - beganTSC) * uint64(time.Millisecond) / uint64(took)
})
