package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/pflag"
)

// Values of --log-format.
const (
	formatText = "text"
	formatJSON = "json"
)

// logFlags are the flags of every command that serves.
func logFlags(f *pflag.FlagSet, level, format *string, usual string) {
	f.StringVar(level, "log-level", usual, "least level of the log: debug, info, warn or error")
	f.StringVar(format, "log-format", formatText, "format of the log on standard error: text, or json with the same keys")
}

// newLogger returns a log on standard error, whose level can change; results go to standard output.
func newLogger(level, format string) (*slog.Logger, *slog.LevelVar, error) {
	return newLoggerTo(os.Stderr, level, format)
}

func newLoggerTo(w io.Writer, level, format string) (*slog.Logger, *slog.LevelVar, error) {
	l, err := parseLevel(level)
	if err != nil {
		return nil, nil, err
	}
	now := new(slog.LevelVar)
	now.Set(l)
	switch format {
	case "", formatText:
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: now})), now, nil
	case formatJSON:
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: now, ReplaceAttr: asInText})), now, nil
	default:
		return nil, nil, fmt.Errorf("cannot use --log-format %q: want text or json", format)
	}
}

// asInText gives a value of a JSON log the form that it has in a text log: JSON would have a
// duration in nanoseconds, and an address as its parts.
func asInText(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case error: // its text already
	case fmt.Stringer:
		if a.Key != slog.TimeKey && a.Key != slog.LevelKey {
			a.Value = slog.StringValue(v.String())
		}
	}
	return a
}

func parseLevel(level string) (l slog.Level, err error) {
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return l, fmt.Errorf("cannot use --log-level %q: want debug, info, warn or error", level)
	}
	return l, nil
}

// loggedError is an error that the log has already.
type loggedError struct{ error }

// Unwrap implements the interface of package errors.
func (e loggedError) Unwrap() error { return e.error }

// logEnd logs the error that ends a command where the log is read by programs: the text that main
// prints otherwise is no JSON.
func logEnd(log *slog.Logger, format string, err error) error {
	if err == nil || format != formatJSON {
		return err
	}
	log.Error("warmpath ends", "error", err)
	return loggedError{err}
}

// logged reports whether the log has an error already.
func logged(err error) bool { return errors.As(err, new(loggedError)) }
