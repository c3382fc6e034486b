// A Go program that does next to nothing: what its start costs is the least that a plugin in Go can cost.
package main

import "fmt"

func main() {
	fmt.Println("hello")
}
