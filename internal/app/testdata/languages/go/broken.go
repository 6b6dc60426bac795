package main

func main() { var unused int }
