//go:build !embedded

package main

import "context"

func etcdMembers(context.Context, *etcdCall) error { return errNoEmbedded }

func etcdAdd(context.Context, *etcdCall) error { return errNoEmbedded }

func etcdRemove(context.Context, *etcdCall) error { return errNoEmbedded }

func etcdSnapshot(context.Context, *etcdCall) error { return errNoEmbedded }

func etcdRestore(context.Context, *etcdCall) error { return errNoEmbedded }
