// How a person names a pod: `<namespace>/<pod>`, a container id, or the beginning of one as lists print it.

/** How much of a container id lists print: as much as tells containers of a node apart. */
export const SHORT_ID_LENGTH = 13;

export interface NamedPod {
  readonly namespace: string;
  readonly name: string;
  readonly containerId: string;
}

/** Whether `text` names this pod. */
export function isNamedBy({ namespace, name, containerId }: NamedPod, text: string): boolean {
  if (text === containerId || text === `${namespace}/${name}`) return true;
  return text.length >= SHORT_ID_LENGTH && containerId.startsWith(text);
}
