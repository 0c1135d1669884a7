// Package browser has no code but tests: they open the page of real nodes in a real browser, Debian's chromium. It is a
// module of its own so that the regent command does not require a driver for browsers.
package browser
