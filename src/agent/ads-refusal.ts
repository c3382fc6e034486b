// Envoy's words when it refuses a response -> which resources it means. It applies the good ones of the same response:
//   Error adding/updating listener(s) capture_demo_a: <why>\ninbound_demo_b: <why>\n

/** Refused names with what Envoy says of each. A text that names none of `sent` refuses them all. */
export function splitRefusal(text: string, sent: readonly string[]): ReadonlyMap<string, string> {
  const named = new Map<string, string>();
  for (const line of text.split('\n')) {
    for (const name of sent) {
      if (!named.has(name) && mentions(line, name)) named.set(name, line.trim());
    }
  }
  return named.size > 0 ? named : new Map(sent.map((name) => [name, text]));
}

// The whole name, never a part of a longer one: names hold letters, digits and `_ - . / :`, so a colon ends a name only
// before a blank or at the end.
function mentions(line: string, name: string): boolean {
  for (let at = line.indexOf(name); at >= 0; at = line.indexOf(name, at + 1)) {
    const before = line[at - 1];
    const after = line.slice(at + name.length);
    const startsHere = before === undefined || /[^\w./:-]/.test(before);
    if (startsHere && /^(:?\.?$|:?\s|[^\w./:-])/.test(after)) return true;
  }
  return false;
}
