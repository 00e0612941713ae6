package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// secretValue is a flag for a key or a token: the secret itself, or @FILE with it. A reload reads
// the file again.
type secretValue struct {
	to    *string
	given string
	err   error // of the environment, which has no other way to tell it
}

var _ pflag.Value = (*secretValue)(nil)

// secretFlag adds a flag for a secret, which is in the environment where no flag gives it.
func secretFlag(f *pflag.FlagSet, to *string, name, usage string) {
	v := &secretValue{to: to}
	f.Var(v, name, usage+": `SECRET` or @FILE with it; also "+envName(name))
	if text := os.Getenv(envName(name)); text != "" {
		if err := v.Set(text); err != nil {
			v.err = fmt.Errorf("cannot use %s: %w", envName(name), err)
		}
	}
}

// String implements pflag.Value.
func (v *secretValue) String() string { return v.given }

// Type implements pflag.Value.
func (*secretValue) Type() string { return "secret" }

// Set implements pflag.Value.
func (v *secretValue) Set(text string) error {
	secret := text
	if file, in := strings.CutPrefix(text, "@"); in {
		var err error
		if secret, err = readSecret(file); err != nil {
			return err
		}
	}
	*v.to, v.given, v.err = secret, text, nil
	return nil
}

// maxSecret bounds a file with one.
const maxSecret = 64 << 10

var errSecret = errors.New("unusable file of a secret")

// readSecret returns a file's content without the line's end.
func readSecret(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errSecret, err)
	}
	defer func() { _ = f.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	secret := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", errSecret, err)
	case len(text) > maxSecret:
		return "", fmt.Errorf("%w: %s is longer than %d bytes", errSecret, file, maxSecret)
	case secret == "": // as a file is for a moment that someone is writing
		return "", fmt.Errorf("%w: %s is empty", errSecret, file)
	}
	return secret, nil
}

// fromFile reports whether a secret is in a file.
func fromFile(f *pflag.FlagSet, name string) bool {
	return strings.HasPrefix(f.Lookup(name).Value.String(), "@")
}

// readAgain reads a secret again that is in a file; "": it is in none.
func readAgain(f *pflag.FlagSet, name string) (string, error) {
	file, in := strings.CutPrefix(f.Lookup(name).Value.String(), "@")
	if !in {
		return "", nil
	}
	return readSecret(file)
}

// checkSecrets runs before every command: it returns the faults of secrets in the environment,
// and warns of those on the command line.
func checkSecrets(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if v, is := flag.Value.(*secretValue); is {
			err = errors.Join(err, v.err)
		}
	})
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if exposed(flag) {
			fmt.Fprintf(cmd.ErrOrStderr(), "warmpath: every user of this machine sees the secret in --%s (ps): %s\n", flag.Name, instead(flag))
		}
	})
	return err
}

// exposed reports whether a flag on the command line has a secret, or a URL with one.
func exposed(flag *pflag.Flag) bool {
	if _, is := flag.Value.(*secretValue); !is && secretFlags.MatchString(flag.Name) {
		return false // it names a file
	}
	values := []string{flag.Value.String()}
	if many, isList := flag.Value.(pflag.SliceValue); isList {
		values = many.GetSlice()
	}
	for _, value := range values {
		if masked(flag.Name, value) != value {
			return true
		}
	}
	return false
}

// instead says where else a secret may be.
func instead(flag *pflag.Flag) string {
	if _, is := flag.Value.(*secretValue); is {
		return fmt.Sprintf("use --%s @FILE, or %s in the environment", flag.Name, envName(flag.Name))
	}
	if flag.Name == "cluster" {
		return "use --cluster-token @FILE, --cluster-creds or --cluster-nkey"
	}
	return fmt.Sprintf("use %s in the environment, or a --config file", envName(flag.Name))
}
