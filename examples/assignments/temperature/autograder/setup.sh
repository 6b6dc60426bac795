#!/usr/bin/env bash
# Nothing to install: the template has Python.
true
