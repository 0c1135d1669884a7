package main

const rootLong = `regent elects at most one leader among processes that share a store, and fences off work sent by
former leaders.`

const serveLong = `Runs a node until it gets TERM or INT. The node campaigns, runs duties and polls while it leads, and
serves HTTP.

Exit codes: 0 stopped by a signal; 1 it failed, and may work when it is started again; 64 the command
line makes no sense; 78 the configuration, the store or a file of dataDir must be changed first.`

const runLong = `Runs CMD while this process leads ELECTION, and stops it when leadership is lost. CMD is run once,
unless --restart is given. It finds REGENT_ELECTION, REGENT_EPOCH and REGENT_NODE in its environment.

Exit codes: that of CMD, or 128 and the signal that it died of; 64 the command line makes no sense;
69 the store was never reached within --timeout; 75 leadership was not won within --timeout, or with
--no-wait another process leads; 78 the configuration or the store must be changed first; 90
leadership was lost, and CMD was stopped; 126 CMD cannot be run; 127 there is no program CMD.`

const slotsLong = `Checks the journals of all workers: each slot of each poll was completed once, and none was left out.
With --config it knows the schedules of the polls, and finds slots that no worker has begun.

Exit codes: 0 each slot was completed once; 1 a slot was left out or completed twice; 64 the command
line makes no sense; 78 the configuration must be changed first.`
