package top

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// Config holds the settings of a screen.
type Config struct {
	Ask    Source
	Router string        // its name, for people
	Every  time.Duration // between an answer and the next question
}

func (c *Config) model(ctx context.Context) *model {
	return &model{ask: func() (Reading, error) { return c.Ask(ctx) }, router: c.Router, every: c.Every}
}

// Run draws on a terminal until its user quits or ctx ends. options are for tests.
func Run(ctx context.Context, cfg Config, options ...tea.ProgramOption) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	_, err := tea.NewProgram(cfg.model(ctx), append([]tea.ProgramOption{tea.WithContext(ctx)}, options...)...).Run()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("cannot draw on the terminal: %w", err)
	}
	return nil
}

// Snapshot writes the state of the router once, without colours and with all workers.
func Snapshot(ctx context.Context, cfg Config, out io.Writer) error {
	m := cfg.model(ctx)
	r, err := cfg.Ask(ctx)
	if err != nil {
		return err
	}
	m.learn(&answer{reading: r, at: r.At})
	rows := m.rows()
	lines := append([]string{m.header(0)}, m.attention(0, 0)...)
	lines = append(append(lines, ""), m.chart(0)...)
	lines = append(append(lines, ""), table(rows, 0, len(rows), -1, 0)...)
	_, err = io.WriteString(out, plainText(lines))
	return err
}

// plainText joins lines without styles.
func plainText(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimRight(ansi.Strip(line), " ") + "\n")
	}
	return b.String()
}
