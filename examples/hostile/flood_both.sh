#!/bin/sh
# Writes to both streams without end, in two processes.
yes out &
yes err >&2 &
wait
