#!/bin/sh
# Plants a pipe and a directory where files are declared.
mkfifo /tmp/output
mkdir /tmp/directory
