package s3

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/regentd/regent/driver"
)

func TestKeys(t *testing.T) {
	a := &address{prefix: "app/"}
	for name, want := range map[string]string{
		"coordinator":                  "app/coordinator.json",
		"stargate:leader":              "app/stargate:leader.json",
		driver.MemberRegister("a.b-c"): "app/regent/member/a.b-c.json",
		"a b":                          "app/a!20b.json",
		"é":                            "app/!C3!A9.json",
		"!":                            "app/!21.json",
		"..":                           "app/!2E..json",
		"a/../b":                       "app/a/!2E./b.json",
		"/a":                           "app/!2Fa.json",
		"a//b":                         "app/a/!2Fb.json",
		"a/":                           "app/a/.json",
		"a.json/b":                     "app/a.json!2Fb.json",
		strings.Repeat("x", 201):       "app/" + strings.Repeat("x", 200) + "!/x.json",
		strings.Repeat("x", 200) + "/": "app/" + strings.Repeat("x", 200) + "/.json",
	} {
		if got := a.key(name); got != want {
			t.Errorf("the key of %q is %q, want %q", name, got, want)
		}
	}
	for _, key := range []string{
		"", "app/", "app/.json", "other/a.json", "app/a", "app/a.txt", "app/a b.json", "app/a!2.json", "app/a!zz.json",
		"app/a!41.json",
		"app/a!2f.json", "app/a!/b.json", "app//a.json", "app/./a.json", "app/!probe/result.json", "app/é.json",
	} {
		if name, ok := a.name(key); ok {
			t.Errorf("the key %q is that of a register %q", key, name)
		}
	}
}

// What must hold of every two names: each has its own key, which leads back to it, and no key is a directory of
// another.
func FuzzKeys(f *testing.F) {
	for _, name := range []string{
		"a", "a/b", "a.json", "a.json/b", "..", "//", "!2F",
		strings.Repeat("é", 125), strings.Repeat("%", 250), strings.Repeat("/", 250),
	} {
		f.Add(name, 3)
	}
	a := &address{prefix: strings.Repeat("p", maxPrefix) + "/"}
	f.Fuzz(func(t *testing.T, name string, n int) {
		if !driver.ValidName(name) {
			return
		}
		key := a.key(name)
		if back, ok := a.name(key); !ok || back != name {
			t.Errorf("the key %q of %q leads to %q, %v", key, name, back, ok)
		}
		if len(key) > 1024 || !utf8.ValidString(key) {
			t.Errorf("the key of %q has %d bytes", name, len(key))
		}
		for part := range strings.SplitSeq(key[len(a.prefix):], "/") {
			if part == "" || part == "." || part == ".." || len(part) > 255 {
				t.Errorf("the key %q of %q has the part %q", key, name, part)
			}
		}
		dirs := strings.Split(key, "/")
		for _, dir := range dirs[:len(dirs)-1] {
			if strings.HasSuffix(dir, suffix) {
				t.Errorf("the key %q of %q could be below another's", key, name)
			}
		}
		if n < 0 || n > len(name) {
			return
		}
		if begin := a.keyPrefix(name[:n]); !strings.HasPrefix(key, begin) {
			t.Errorf("the key %q of %q does not begin with %q, that of the prefix %q", key, name, begin, name[:n])
		}
	})
}
