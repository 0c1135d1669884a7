package compare

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// advisoryLock is the session lock of PostgreSQL. The server queues the waiters, and frees the lock when the connection
// ends.
type advisoryLock struct{ conn *pgx.Conn }

func openAdvisory(ctx context.Context, addr string) (Contender, error) {
	conn, err := pgx.Connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &advisoryLock{conn}, nil
}

func (a *advisoryLock) lock(ctx context.Context, election string) error {
	_, err := a.conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", election)
	return err
}

func (a *advisoryLock) unlock(ctx context.Context, election string) error {
	_, err := a.conn.Exec(ctx, "SELECT pg_advisory_unlock(hashtext($1))", election)
	return err
}

func (a *advisoryLock) Hold(ctx context.Context, election string, led func()) error {
	if err := a.lock(ctx, election); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	led()
	<-ctx.Done()
	return a.unlock(context.WithoutCancel(ctx), election)
}

func (a *advisoryLock) Once(ctx context.Context, election string) error {
	if err := a.lock(ctx, election); err != nil {
		return err
	}
	return a.unlock(ctx, election)
}

func (a *advisoryLock) Close() { _ = a.conn.Close(context.Background()) }
