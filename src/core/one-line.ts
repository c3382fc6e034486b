// Texts of others on one line of a terminal: Envoy's words, names out of files.

/** Every run of control characters and line breaks becomes one blank; blanks at the ends go. */
export function onOneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim();
}
