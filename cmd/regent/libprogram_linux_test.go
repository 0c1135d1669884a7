package main

import (
	"sync"
)

// libprogram is the program that uses the library, built once.
var libprogram = sync.OnceValues(func() (string, error) { return build("libprogram", "./internal/libprogram") })
