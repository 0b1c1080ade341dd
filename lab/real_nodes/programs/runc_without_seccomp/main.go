// Copyright (c) 2026 composable.infra contributors
// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Runs the runc beside it, for a runc that was built where libseccomp was missing.
//
// Such a runc refuses every container that asks for a system call filter, and the kubelet asks for one for every
// sandbox. So the filter is taken out of the container's configuration; nothing else is changed.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	if folder := bundle(os.Args[1:]); folder != "" {
		if err := strip(filepath.Join(folder, "config.json")); err != nil {
			fmt.Fprintf(os.Stderr, "the system call filter cannot be taken out: %v\n", err)
			os.Exit(1)
		}
	}
	runc := filepath.Join(filepath.Dir(os.Args[0]), "runc")
	err := syscall.Exec(runc, append([]string{"runc"}, os.Args[1:]...), os.Environ())
	fmt.Fprintf(os.Stderr, "%s: %v\n", runc, err)
	os.Exit(1)
}

// bundle is the container's folder where the command line creates one, else "".
func bundle(arguments []string) string {
	creates, folder := false, ""
	for i, argument := range arguments {
		creates = creates || argument == "create" || argument == "run"
		if argument == "--bundle" && i+1 < len(arguments) {
			folder = arguments[i+1]
		} else if rest, found := strings.CutPrefix(argument, "--bundle="); found {
			folder = rest
		}
	}
	if !creates {
		return ""
	}
	return folder
}

// strip removes linux.seccomp from a container's configuration.
func strip(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var config, linux map[string]json.RawMessage
	if err := json.Unmarshal(content, &config); err != nil {
		return err
	}
	if err := json.Unmarshal(config["linux"], &linux); err != nil {
		return err
	}
	delete(linux, "seccomp")
	if config["linux"], err = json.Marshal(linux); err != nil {
		return err
	}
	if content, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
