package bus

import "os"

// StopServer stops an embedded server as if it had failed.
func (b *Bus) StopServer() {
	b.embedded.change.Lock()
	stopServer(b.embedded.server())
}

// StartServer lets it be started again, without its files if lost is set.
func (b *Bus) StartServer(lost bool) error {
	if lost {
		if err := os.RemoveAll(b.embedded.dir); err != nil {
			return err
		}
	}
	b.embedded.change.Unlock()
	return b.embedded.mend()
}
