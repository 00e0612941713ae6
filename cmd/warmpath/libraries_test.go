//go:build !libzmq

package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestLibraries: warmpath starts where neither libzmq nor a library behind it is installed. This
// test's binary links all that warmpath links.
func TestLibraries(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	libraries, err := binary.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range libraries {
		name, _, _ := strings.Cut(library, ".so")
		if !slices.Contains([]string{"libc", "libdl", "libpthread", "libresolv", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}, name) {
			t.Errorf("warmpath is linked against %s", library)
		}
	}
	packages, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(packages), "pebbe/zmq4") {
		t.Error("warmpath imports pebbe/zmq4 without the build tag libzmq")
	}
}
