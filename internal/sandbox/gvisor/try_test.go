package gvisor

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"assay/internal/guest"
	"assay/internal/sandbox"
)

func TestTry(t *testing.T) {
	d, err := New(Options{BootBinary: "/tmp/w/bin/assay-boot", DebugLog: os.Getenv("TRYLOG")})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	dir := t.TempDir()
	cfg := sandbox.MachineConfig{ID: "try-1", Dir: dir, Image: "/tmp/w/base.erofs", Shape: sandbox.Shape{VCPUs: 2, Memory: 512 << 20, Disk: 256 << 20, Processes: 256}}
	_ = d.Reclaim(ctx, cfg.ID, cfg.Dir)
	t0 := time.Now()
	m, err := d.Boot(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("boot", time.Since(t0))
	defer func() {
		t0 := time.Now()
		if err := m.Destroy(ctx); err != nil {
			t.Error(err)
		}
		t.Log("destroy", time.Since(t0))
	}()
	c := guest.NewClient(m.Link())
	hctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	h, err := c.Hello(hctx)
	if err != nil {
		t.Fatal(err, m.(*machine).logs.suffix())
	}
	t.Log("hello", time.Since(t0), h)
	run := func(c *guest.Client, spec guest.ExecSpec) {
		t.Helper()
		var out, errb bytes.Buffer
		t0 := time.Now()
		ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
		defer cancel()
		res, err := c.Run(ctx, spec, guest.IO{Stdout: &out, Stderr: &errb})
		s := out.String()
		if len(s) > 300 {
			s = s[:300]
		}
		t.Logf("%v %v: %+v\n%s%s err=%v", spec.Argv, time.Since(t0), res, s, errb.String(), err)
	}
	sh := func(s string) []string { return []string{"/bin/sh", "-c", s} }
	for range 5 {
		run(c, guest.ExecSpec{Argv: []string{"/bin/true"}})
	}
	run(c, guest.ExecSpec{Argv: sh("id; cat /proc/meminfo | head -2; nproc; df -h; ls -la /; ps aux")})
	for range 5 {
		run(c, guest.ExecSpec{Argv: []string{"/bin/true"}, Isolated: true})
	}
	for _, x := range []string{"id", "echo $$", "ls -la /tmp /dev/shm", "ls /proc", "mount", "echo hi > /tmp/x; cat /tmp/x", "nosuch"} {
		run(c, guest.ExecSpec{Argv: sh(x), Isolated: true, Limits: guest.Limits{Wall: 3 * time.Second}})
	}
	run(c, guest.ExecSpec{Argv: []string{"nosuch"}})
	run(c, guest.ExecSpec{Argv: sh("while :; do :; done"), Isolated: true, Limits: guest.Limits{CPU: 300 * time.Millisecond}})
	run(c, guest.ExecSpec{Argv: sh("sleep 5"), Limits: guest.Limits{Wall: 300 * time.Millisecond}})
	run(c, guest.ExecSpec{Argv: []string{"python3", "-c", "x=bytearray(100<<20); print(len(x))"}, Limits: guest.Limits{Memory: 200 << 20}})
	run(c, guest.ExecSpec{Argv: []string{"python3", "-c", "x=[bytearray(1<<20) for _ in range(400)]; print(len(x))"}, Isolated: true, Limits: guest.Limits{Memory: 200 << 20}})
	run(c, guest.ExecSpec{Argv: []string{"python3", "-c", "import os\nwhile 1: os.fork()"}, Isolated: true, Limits: guest.Limits{Processes: 32, Wall: 5 * time.Second}})
	run(c, guest.ExecSpec{Argv: sh("yes"), Limits: guest.Limits{Output: 1 << 20}})
	run(c, guest.ExecSpec{Argv: sh("dd if=/dev/zero of=/tmp/big bs=1M count=100; ls -la /tmp"), Limits: guest.Limits{Disk: 20 << 20}})
	run(c, guest.ExecSpec{Argv: sh("rm -f /tmp/*; dd if=/dev/zero of=/home/user/big bs=1M count=100; ls -la /home/user; df"), Limits: guest.Limits{Disk: 20 << 20}})
	run(c, guest.ExecSpec{Argv: sh("dd if=/dev/zero of=/home/user/big bs=1M count=300; ls -la /home/user; df; rm /home/user/big")})
	run(c, guest.ExecSpec{Argv: []string{"/usr/bin/dd", "if=/dev/zero", "of=/tmp/big", "bs=1M", "count=100"}, Limits: guest.Limits{FileSize: 20 << 20}})
	u, err := m.Usage()
	t.Log(u, err)
	snap := t.TempDir()
	t0 = time.Now()
	if err := c.Between(hctx, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	t.Log("end session", time.Since(t0))
	t0 = time.Now()
	if err := m.Snapshot(ctx, snap); err != nil {
		t.Fatal(err)
	}
	t.Log("snapshot", time.Since(t0))
	run(c, guest.ExecSpec{Argv: []string{"/bin/true"}})
	for i := range 9 {
		cfg := cfg
		cfg.ID, cfg.Dir = "try-r"+string(rune('0'+i)), t.TempDir()
		_ = d.Reclaim(ctx, cfg.ID, cfg.Dir)
		t0 = time.Now()
		r, err := d.Restore(ctx, cfg, snap)
		if err != nil {
			t.Fatal(err)
		}
		t.Log("restored", time.Since(t0))
		rc := guest.NewClient(r.Link())
		if _, err := rc.Hello(hctx); err != nil {
			t.Fatal(err, r.(*machine).logs.suffix())
		}
		t.Log("hello", time.Since(t0))
		if err := rc.Identify(hctx, guest.Identity{Hostname: "h", MachineID: "00", Now: time.Now(), Generation: 1}); err != nil {
			t.Fatal(err)
		}
		t.Log("identified", time.Since(t0))
		for range 3 {
			run(rc, guest.ExecSpec{Argv: []string{"/bin/true"}})
		}
		run(rc, guest.ExecSpec{Argv: sh("hostname; cat /etc/machine-id"), Isolated: true})
		t0 = time.Now()
		if err := r.Destroy(ctx); err != nil {
			t.Error(err)
		}
		t.Log("destroy", time.Since(t0))
	}
}
