// Copyright (c) 2026 composable.infra contributors
// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// What the containers of the lab's real nodes run: it says which device it was given, and waits. The later commands are
// those of a hostile tenant, who keeps a device or passes for another program.
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// In the names of variables by which a container knows its devices, such as GPU_DEVICE_0.
const infix = "_DEVICE_"

// In the environment: the name for the kernel of a process that acts as another one, and of a program that crashes.
const acting, crashing = "WORKLOAD_ACTING", "WORKLOAD_CRASHING"

const usage = "use pause, show, hold FILE, stay FILE, leave FILE, give FILE SOCKET, take SOCKET, act NAME WORD..., crash FILE"

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	name := os.Getenv(acting)
	if name != "" {
		must(os.WriteFile("/proc/self/comm", []byte(name), 0))
	}
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
	case "stay":
		signal.Ignore(syscall.SIGTERM)
		defer hold(os.Args[2]).Close()
	case "leave":
		leave(os.Args[2])
		return
	case "give":
		go give(hold(os.Args[2]), os.Args[3])
	case "take":
		defer take(os.Args[2]).Close()
	case "act":
		act(os.Args[2], os.Args[3:])
	case "crash":
		crash(os.Args[2])
	default:
		if name == "" {
			fmt.Fprintf(os.Stderr, "%s is no command: %s\n", command, usage)
			os.Exit(2)
		}
		fmt.Println("acts")
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
	must(err)
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	sort.Strings(names)
	fmt.Printf("/dev: %s\n", strings.Join(names, " "))
}

// hold opens a device and keeps it open, as a program that computes on it does. The path may be a pattern.
func hold(path string) *os.File {
	if found, _ := filepath.Glob(path); len(found) > 0 {
		path = found[0]
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(err)
	fmt.Printf("holds %s\n", path)
	return file
}

// leave starts a process in a session of its own that holds the device, and does not wait for its end.
func leave(path string) {
	child := exec.Command("/proc/self/exe", "stay", path)
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	output, err := child.StdoutPipe()
	must(err)
	must(child.Start())
	line := make([]byte, 256)
	n, err := output.Read(line)
	must(err)
	fmt.Printf("left a process that %s", line[:n])
}

// give passes the open file to each process that connects to the socket.
func give(file *os.File, socket string) {
	os.Remove(socket)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	must(err)
	for {
		connection, err := listener.AcceptUnix()
		must(err)
		_, _, err = connection.WriteMsgUnix([]byte("x"), syscall.UnixRights(int(file.Fd())), nil)
		must(err)
		connection.Close()
	}
}

// take waits for the socket, and returns the file that is passed.
func take(socket string) *os.File {
	for {
		connection, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		space := make([]byte, syscall.CmsgSpace(4))
		_, n, _, _, err := connection.ReadMsgUnix(make([]byte, 1), space)
		must(err)
		messages, err := syscall.ParseSocketControlMessage(space[:n])
		must(err)
		files, err := syscall.ParseUnixRights(&messages[0])
		must(err)
		fmt.Println("took the device")
		return os.NewFile(uintptr(files[0]), "device")
	}
}

// act becomes a process with this name and this command line, which may be one of the commands.
func act(name string, words []string) {
	must(syscall.Exec("/proc/self/exe", words, append(os.Environ(), acting+"="+name)))
}

// crash is a program with the name of the path that ends by an access to memory that is not there.
func crash(path string) {
	if os.Getenv(crashing) == "" {
		program, err := os.ReadFile("/proc/self/exe")
		must(err)
		must(os.WriteFile(path, program, 0o755))
		must(syscall.Exec(path, os.Args, append(os.Environ(), crashing+"=1")))
	}
	// The kernel tells of a fault that the program does not handle, and Go handles all.
	var byDefault [4]uintptr
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGSEGV), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
	var nowhere *int
	*nowhere = 1
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
