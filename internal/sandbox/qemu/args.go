package qemu

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strconv"
	"sync"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandbox/qemu/box"
)

// commandLine is what QEMU is started with. Files are descriptors that it
// inherits: it opens nothing of the host by name but its own parts.
type commandLine struct {
	d                        *Driver
	shape                    sandbox.Shape
	link, qmp, image, memory int
	kernel, initramfs        int // zero for a machine that is restored
	tap                      int // zero for a machine without a network
}

func (c commandLine) list() []string {
	size := strconv.FormatInt(memorySize(c.shape), 10)
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-S",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-machine", c.d.board.machine + ",usb=off,memory-backend=memory,suppress-vmdesc=on",
		// A state is the devices alone: see snapshot.go.
		"-global", "migration.send-configuration=off",
		"-smp", strconv.Itoa(c.shape.VCPUs), "-m", "size=" + size + "B",
		"-object", "memory-backend-file,id=memory,share=off,size=" + size + ",mem-path=/proc/self/fd/" + strconv.Itoa(c.memory),
		"-add-fd", "set=1,fd=" + strconv.Itoa(c.image),
		"-blockdev", "driver=raw,node-name=image,read-only=on,file.driver=file,file.filename=/dev/fdset/1,file.locking=off",
		"-device", "virtio-blk-" + c.d.board.bus + ",drive=image",
		"-device", "virtio-serial-" + c.d.board.bus + ",max_ports=2",
		"-chardev", "socket,id=link,fd=" + strconv.Itoa(c.link),
		"-device", "virtserialport,nr=1,chardev=link",
		"-chardev", "socket,id=qmp,fd=" + strconv.Itoa(c.qmp), "-mon", "chardev=qmp,mode=control",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
	}
	args = append(args, c.network()...)
	if c.d.opts.Accel == KVM {
		args = append(args, "-accel", "kvm", "-cpu", "host")
	} else {
		args = append(args, "-accel", fmt.Sprintf("tcg,thread=multi,tb-size=%d", codeCache), "-cpu", "max")
	}
	if c.kernel == 0 {
		return append(args, "-incoming", "defer")
	}
	return append(args, "-kernel", "/proc/self/fd/"+strconv.Itoa(c.kernel), "-initrd", "/proc/self/fd/"+strconv.Itoa(c.initramfs),
		"-append", c.d.kernelLine(c.shape))
}

// board is what a guest finds itself on.
type board struct {
	name string
	// machine is QEMU's name with all left out that a guest can do without; bus is
	// what its devices hang on, transport the kernel's module for that.
	machine, bus, transport string
}

// boards are all that this driver knows, the best first.
var boards = []board{
	{Microvm, "microvm,acpi=on,pcie=off,rtc=on", "device", "virtio_mmio"},
	{Q35, "q35,sata=off,smbus=off,smm=off,vmport=off,hpet=off,graphics=off", "pci", "virtio_pci"},
}

// board is the one that was asked for, or the best that QEMU has.
func (o *Options) board() (board, error) {
	if o.Board == "" {
		return qemuBoard(o.QEMU)
	}
	for _, b := range boards {
		if b.name == o.Board {
			return b, nil
		}
	}
	return board{}, fault.Errorf(fault.Invalid, "board %q of QEMU is neither %s nor %s", o.Board, Microvm, Q35).WithHint("leave it out: the best is taken")
}

// guestEnv is what guestd is told of the machine.
func guestEnv(s sandbox.Shape) []string {
	return []string{
		"rdinit=/init", guest.VMEnv + "=" + guest.VMBoot,
		guest.ProcessesEnv + "=" + strconv.Itoa(s.Processes),
		guest.MemoryEnv + "=" + strconv.FormatInt(s.Memory, 10),
		guest.DiskEnv + "=" + strconv.FormatInt(s.Disk, 10),
	}
}

// The users that QEMU runs as: one for each machine, far from those of the host,
// so that who takes over one QEMU cannot touch another.
const (
	firstUser = 0x70000000
	users     = 1 << 24
)

// box is how the process is kept apart from the host.
func (m *machine) box(root string) box.Box {
	b := box.Box{Root: root, Procs: m.group.Procs()}
	if !m.d.opts.WithoutCgroups {
		h := fnv.New32a()
		_, _ = io.WriteString(h, m.cfg.ID) // a hash takes everything
		b.User = firstUser + int(h.Sum32()%users)
	}
	if m.d.opts.Accel == KVM {
		b.Devices = []string{"/dev/kvm"}
	}
	return b
}

// fileList is the files that a child inherits.
type fileList struct {
	list []*os.File
	ours []*os.File
}

// add adds a file, which close closes, and gives its descriptor in the child.
func (l *fileList) add(f *os.File) int {
	l.ours = append(l.ours, f)
	return l.addKept(f)
}

// addKept adds one that stays open here.
func (l *fileList) addKept(f *os.File) int {
	l.list = append(l.list, f)
	return 2 + len(l.list)
}

func (l *fileList) close() {
	for _, f := range l.ours {
		_ = f.Close()
	}
}

// console keeps the last of what QEMU and the guest's kernel say.
type console struct {
	mu  sync.Mutex
	buf []byte
}

const consoleSize = 32 << 10

// Write never fails and never waits: QEMU would.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = append(c.buf, p...)
	if extra := len(c.buf) - consoleSize; extra > 0 {
		c.buf = c.buf[:copy(c.buf, c.buf[extra:])]
	}
	return len(p), nil
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.buf)
}
