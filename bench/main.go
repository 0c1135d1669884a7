// Command bench measures Regent and its peers, on real servers that it starts on free ports of the loopback and stops
// at the end.
//
//	go run ./bench                    every figure, as Markdown
//	go run ./bench takeover acquire   these
//	go run ./bench -quick -json       a small run, as JSON
//
// The command bench/peers has more peers, for fewer figures.
package main

import (
	"os"

	"github.com/regentd/regent/bench/internal/compare"
)

func main() { os.Exit(compare.Main(os.Args[1:])) }
