//go:build !linux

package brood

import "errors"

// Confined says that there are no cgroups here.
func (b Brood) Confined() (Brood, error) { return b, errors.ErrUnsupported }

// Confinable says that there are no cgroups here.
func Confinable() error { return errors.ErrUnsupported }

// Remove does nothing.
func (Brood) Remove() {}

func (Brood) killCgroup() {}
