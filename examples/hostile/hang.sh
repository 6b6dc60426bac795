#!/bin/sh
# Waits for input that does not come, and ignores what would end it.
trap '' TERM INT HUP QUIT PIPE
while :; do sleep 1000; done
