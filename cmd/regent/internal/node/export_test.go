package node

// Differences compares the facts of a member with those of a node.
var Differences = differences
