// Copyright (c) 2026 composable.infra contributors
// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// What the containers of the lab's real nodes run: it says which device it was given, and waits.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strings"
	"syscall"
)

// In the names of variables by which a container knows its devices, such as GPU_DEVICE_0.
const infix = "_DEVICE_"

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	command := "show"
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	switch command {
	case "pause":
	case "show":
		show()
	case "hold":
		defer hold(os.Args[2]).Close()
	default:
		fmt.Fprintf(os.Stderr, "%s is no command: use pause, show or hold FILE\n", command)
		os.Exit(2)
	}
	<-ended
}

// show prints the variables and the file names that a claim adds.
func show() {
	devices := []string{}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.Contains(name, infix) {
			devices = append(devices, variable)
		}
	}
	sort.Strings(devices)
	fmt.Printf("devices: %s\n", strings.Join(devices, " "))
	entries, err := os.ReadDir("/dev")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	sort.Strings(names)
	fmt.Printf("/dev: %s\n", strings.Join(names, " "))
}

// hold opens a device and keeps it open, as a program that computes on it does.
func hold(path string) *os.File {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("holds %s\n", path)
	return file
}
