if true; then echo
