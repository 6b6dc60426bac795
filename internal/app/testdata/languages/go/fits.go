package main

import "fmt"

func main() {
	var all [][]byte
	for i := 0; i < 160; i++ {
		b := make([]byte, 1<<20)
		for k := range b {
			b[k] = byte(i)
		}
		all = append(all, b)
	}
	if all[7][7] == 7 {
		fmt.Println("hello")
	}
}
