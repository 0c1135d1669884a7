module github.com/regentd/regent

go 1.26.0
