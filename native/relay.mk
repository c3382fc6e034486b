# The relay: static, small, started for every CNI call. Its sanitizer builds are for tests only (target relay-checked).
# Included by Makefile; needs its OUT. musl-gcc: an empty static program of glibc is 680 kB.
RELAY_CC ?= musl-gcc
RELAY_NODE ?= ../node_modules/.bin/node
RELAY_WARN := -std=gnu11 -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror
RELAY_FLAGS := -Os -s -static -no-pie -fno-pie -ffunction-sections -Wl,--gc-sections -Wl,-z,norelro -Wl,--build-id=none
RELAY_CHECKED_FLAGS := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
RELAY_SOURCES := relay.c relay-core.c relay-io.c
RELAY_HEADERS := relay-core.h relay-io.h $(OUT)/cni-versions.h $(OUT)/relay-frame.h

all: relay
relay: $(OUT)/aether-cni-relay
relay-checked: $(OUT)/aether-cni-relay-checked $(OUT)/relay-fuzz

$(OUT)/cni-versions.h $(OUT)/relay-frame.h &: ../scripts/generate-relay-header.ts ../src/cni/versions.ts ../src/cni/relay-frame.ts ../src/commands/version.ts ../package.json | $(OUT)
	$(RELAY_NODE) ../scripts/generate-relay-header.ts $(OUT)

$(OUT)/aether-cni-relay: $(RELAY_SOURCES) $(RELAY_HEADERS) relay.mk
	$(RELAY_CC) $(RELAY_WARN) $(RELAY_FLAGS) -I$(OUT) -o $@.new $(RELAY_SOURCES)
	mv -f $@.new $@

$(OUT)/aether-cni-relay-checked: $(RELAY_SOURCES) $(RELAY_HEADERS) relay.mk
	gcc $(RELAY_WARN) $(RELAY_CHECKED_FLAGS) -I$(OUT) -o $@.new $(RELAY_SOURCES)
	mv -f $@.new $@

$(OUT)/relay-fuzz: relay-fuzz.c relay-core.c relay-request.c relay-request.h $(RELAY_HEADERS) relay.mk
	gcc $(RELAY_WARN) $(RELAY_CHECKED_FLAGS) -I$(OUT) -o $@.new relay-fuzz.c relay-core.c relay-request.c
	mv -f $@.new $@

clean: clean-relay
clean-relay:
	rm -f $(OUT)/cni-versions.h $(OUT)/relay-frame.h $(OUT)/aether-cni-relay $(OUT)/aether-cni-relay-checked $(OUT)/relay-fuzz

.PHONY: relay relay-checked clean-relay
