#!/bin/sh
# Plants a symbolic link where a file is declared.
ln -s /etc/passwd /tmp/output
ln -s /etc /tmp/directory
