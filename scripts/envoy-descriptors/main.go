// envoy-descriptors writes the .proto files registered by the packages of api.go, and all that they import, as one
// google.protobuf.FileDescriptorSet. Imports come before importers and files are visited by path: same input, same bytes.
//
//	go run . OUTPUT
package main

import (
	"log"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Other registered files (validation rules, well-known types) get in only as imports of these.
var roots = []string{"envoy/", "xds/", "opentelemetry/"}

func isRoot(path string) bool {
	return slices.ContainsFunc(roots, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// listRoots gives the paths of all registered root files, sorted: the registry itself ranges in random order.
func listRoots() []string {
	var paths []string
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if isRoot(file.Path()) {
			paths = append(paths, file.Path())
		}
		return true
	})
	slices.Sort(paths)
	return paths
}

// collector appends a file after everything that it imports, once.
type collector struct {
	set  descriptorpb.FileDescriptorSet
	done map[string]bool
}

func (c *collector) add(file protoreflect.FileDescriptor) {
	if c.done[file.Path()] {
		return
	}
	if file.IsPlaceholder() {
		log.Fatalf("collect descriptors: %q is imported but not linked in", file.Path())
	}
	c.done[file.Path()] = true
	for i := range file.Imports().Len() {
		c.add(file.Imports().Get(i).FileDescriptor)
	}
	c.set.File = append(c.set.File, protodesc.ToFileDescriptorProto(file))
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: envoy-descriptors OUTPUT")
	}
	c := collector{done: map[string]bool{}}
	for _, path := range listRoots() {
		file, err := protoregistry.GlobalFiles.FindFileByPath(path)
		if err != nil {
			log.Fatal(err)
		}
		c.add(file)
	}
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(&c.set)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], bytes, 0o644); err != nil {
		log.Fatal(err)
	}
	log.Printf("%s: %d files, %d bytes", os.Args[1], len(c.set.File), len(bytes))
}
