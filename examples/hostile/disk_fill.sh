#!/bin/sh
# Fills the disk.
dd if=/dev/zero of=/tmp/fill bs=1M 2>/dev/null
sleep 60
