package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// maxScreenshot is the size of the largest screenshot of the README, in bytes.
const maxScreenshot = 200_000

// TestScreenshots checks the screenshots of the README. With REGENT_UPDATE=1 it makes them, of a cluster with some
// history.
func TestScreenshots(t *testing.T) {
	files := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		files[scheme] = filepath.Join("..", "..", "..", "docs", "page-"+scheme+".png")
	}
	if os.Getenv("REGENT_UPDATE") != "" {
		takeScreenshots(t, files)
	}

	for scheme, path := range files {
		info, err := os.Stat(path)
		if err != nil || info.Size() > maxScreenshot || info.Size() < 20_000 {
			t.Errorf("the screenshot in %s: %v, %+v", scheme, err, info)
		}
	}
}

func takeScreenshots(t *testing.T, files map[string]string) {
	t.Helper()
	c := newCluster(t, "", "node-a", "node-b", "node-c")
	c.leader("")
	for i, election := range []string{"backup", "mail"} {
		programs(t, c, election, i)
	}

	b := newTab(t)
	b.look(1280, 900, "light", "no-preference")
	for range 2 {
		happen(t, c)
	}
	viewed, _ := c.leader("")
	b.expectRefusals() // the node that it asks is killed
	b.open(viewed.url())
	happen(t, c)
	refuse(t, viewed, c.coordinator(viewed).Epoch)
	b.wait("the chart has some samples", `performance.now() > 25000`)

	for scheme, path := range files {
		b.look(1280, 900, scheme, "no-preference")
		b.run(chromedp.Evaluate[chromedp.Void](`document.activeElement?.blur(); scrollTo(0, 0)`))
		b.wait("it is drawn", `new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))`)
		picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	for _, width := range []int64{1280, 390} { // to see the whole page
		for _, scheme := range []string{"light", "dark"} {
			b.look(width, 3000, scheme, "no-preference")
			b.picture(fmt.Sprintf("%s-%d", scheme, width))
		}
	}
}

// picture writes a picture of the page, if REGENT_SCREENSHOTS names a directory for pictures.
func (b *tab) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("REGENT_SCREENSHOTS")
	if dir == "" {
		return
	}

	b.wait("it is drawn", `new Promise(r => setTimeout(() => r(true), 300))`)
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// programs runs two programs in an election of their own, and kills the first.
func programs(t *testing.T, c *cluster, election string, n int) {
	t.Helper()
	store := c.nodes["node-a"].args[4]
	for i := range 2 {
		name := fmt.Sprintf("%s-%d", election, i+1)
		cmd := exec.Command(binary, "run", election, "--node", name, "--store", store, "--profile", "cluster",
			"--restart", "--", "sleep", "3600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})

		if i == 0 {
			wait(t, election+" is led", func() bool { return c.election(c.nodes["node-a"], election).Leader != "" })
			time.AfterFunc(time.Duration(9+6*n)*time.Second, func() { _ = cmd.Process.Kill() })
		}
	}
}

// happen lets some things happen: a leader dies, another hands over, and nobody leads for a while.
func happen(t *testing.T, c *cluster) {
	t.Helper()
	pause := func(d time.Duration) { <-time.After(d) } // what a person sees takes its time

	pause(5 * time.Second)
	dead, _ := c.leader("")
	dead.kill()
	leader, epoch := c.leader(dead.name)
	dead.start()

	pause(6 * time.Second)
	to := c.other(leader.name, dead.name)
	c.post(leader, "/v1/elections/coordinator/handoff", fmt.Sprintf(`{"epoch": %d, "to": %q}`, epoch, to.name))
	c.leader(leader.name)

	pause(4 * time.Second)
	before, epoch := c.leader("")
	body := fmt.Sprintf(`{"epoch": %d}`, epoch)
	c.post(before, "/v1/elections/coordinator/pause", body)
	c.post(before, "/v1/elections/coordinator/step-down", body)
	pause(3 * time.Second)
	c.post(before, "/v1/elections/coordinator/resume", body)
	c.leader("")
}
