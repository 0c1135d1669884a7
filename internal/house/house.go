// Package house holds the rules of the house, as tests: what may require what, what must be documented, and which
// behaviour is proved where.
package house
