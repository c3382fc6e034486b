// How large a network configuration may be: apart from its reader, for those who only take in its bytes.

/** Larger input is refused unread: a result and annotations of a pod are at most a few hundred kilobytes. */
export const CONFIG_MAX_BYTES = 4 * 1024 * 1024;
