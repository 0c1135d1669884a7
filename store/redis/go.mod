module github.com/regentd/regent/store/redis

go 1.26.0

require (
	github.com/redis/rueidis v1.0.79
	github.com/regentd/regent v0.0.0
)

require golang.org/x/sys v0.47.0 // indirect

replace github.com/regentd/regent => ../..
