package config_test

import (
	"fmt"
	"os"

	"github.com/regentd/regent/cmd/regent/internal/config"
)

func Example() {
	args := []string{"--node", "node-a", "--store", "memory:"}

	settings, err := config.Load(args, os.Environ(), config.ReadFile)
	if err != nil {
		fmt.Println(err)
		return
	}

	fmt.Println(settings.Node, settings.Store)
	// Output:
	// node-a memory:
}
