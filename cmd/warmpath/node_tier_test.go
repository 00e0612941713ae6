package main

import (
	"errors"
	"testing"
)

func TestParseBytes(t *testing.T) {
	tests := map[string]int64{"8GiB": 8 << 30, "512MiB": 512 << 20, "1.5KiB": 1536, "2 TB": 2e12, "4096": 4096, "7B": 7, "1kB": 1000}
	for text, want := range tests {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("parseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "-1GiB", "0", "8 Gigs", "1e30", "NaN", "Inf", "9999999TiB"} {
		if got, err := parseBytes(text); !errors.Is(err, errSize) {
			t.Errorf("parseBytes(%q) = %d, %v, want errSize", text, got, err)
		}
	}
}

func TestTierOptionsRefuse(t *testing.T) {
	for _, o := range []tierOptions{
		{size: "much"},
		{size: "1000TiB"}, // more than the machine has: the kernel would end the sidecar once the tier is full
	} {
		if c, err := o.config(""); !errors.Is(err, errSize) {
			t.Errorf("%+v is accepted: %+v, %v", o, c, err)
		}
	}
	o := tierOptions{size: "8MiB"}
	if c, err := o.config("token"); err != nil || c.Bytes != 8<<20 || c.Token != "token" {
		t.Errorf("%+v becomes %+v, %v", o, c, err)
	}
}
