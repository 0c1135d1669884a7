package core

import (
	"cmp"
	"slices"
	"strings"

	"github.com/regentd/regent/driver"
)

// This file keeps the candidates in their order, so that the best one is found without reading the others.

// order holds the indexes of peers, the best first.
type order []uint32

func (c *Core) dropPeer(i uint32) {
	r := &c.roster
	c.unrank(i)
	p := r.peers.all[i]
	delete(r.byName, driver.MemberRegister(p.who.ID))
	r.peers.drop(i)
}

// peer returns a member by its register, or nil.
func (r *roster) peer(name string) *peer {
	if i, ok := r.byName[name]; ok {
		return r.peers.all[i]
	}

	return nil
}

// enrank puts a candidate at its place among the others.
func (c *Core) enrank(i uint32) {
	r := &c.roster
	p := r.peers.all[i]
	for _, name := range p.elections {
		if name != everyElection {
			r.named[name] = r.insert(r.named[name], i)
			continue
		}

		r.everywhere = r.insert(r.everywhere, i)
		if c.rank.kind == rankFirst {
			p.points = pointsOf(p.id)
			r.ring.add(i, p.points)
		}
	}

	if c.rank.kind == rankFirst && len(p.elections) > 0 && p.points == nil {
		p.points = pointsOf(p.id)
	}
}

// unrank takes a candidate out of the order.
func (c *Core) unrank(i uint32) {
	r := &c.roster
	p := r.peers.all[i]
	for _, name := range p.elections {
		if name != everyElection {
			r.named[name] = r.remove(r.named[name], i)
			if len(r.named[name]) == 0 {
				delete(r.named, name)
			}

			continue
		}

		r.everywhere = r.remove(r.everywhere, i)
		r.ring.remove(i, p.points)
	}

	p.elections = nil
	p.points = nil
}

// find returns where a peer stands in an order, or would.
func (r *roster) find(o order, i uint32) int {
	k, _ := slices.BinarySearchFunc(o, r.peers.all[i], func(x uint32, p *peer) int {
		return comparePeers(r.peers.all[x], p)
	})

	return k
}

// comparePeers is negative if a comes before b in an order.
func comparePeers(a, b *peer) int {
	if a.place != b.place {
		return cmp.Compare(a.place, b.place)
	}

	return strings.Compare(a.id, b.id)
}

// before reports whether a peer comes before another in an order.
func (r *roster) before(i, k uint32) bool { return comparePeers(r.peers.all[i], r.peers.all[k]) < 0 }

func (r *roster) insert(o order, i uint32) order { return slices.Insert(o, r.find(o, i), i) }

func (r *roster) remove(o order, i uint32) order {
	k := r.find(o, i)
	return slices.Delete(o, k, k+1)
}

// best returns the best candidate for an election, but for one incarnation; nil if there is none.
func (r *roster) best(name string, but driver.Identity) *peer {
	var best *peer
	for _, o := range [...]order{r.named[name], r.everywhere} {
		for _, i := range o[:min(2, len(o))] {
			p := r.peers.all[i]
			if p.who == but {
				continue
			}

			if best == nil || p.place < best.place || p.place == best.place && p.id < best.id {
				best = p
			}

			break
		}
	}

	return best
}
