// Where the native helper stopped on its way into a namespace, as the error that says so.
import { type AetherError, NetnsError } from '../../core/errors.ts';
import { ABI } from './abi.ts';
import { errnoName, kernelError } from './errno.ts';
import { plainPath } from './peer-view.ts';

/** `stage` and positive `errno` as libaether.h has them; `what` is what was attempted. */
export function netnsStageError(what: string, givenPath: string, at: { stage: number; errno: number }): AetherError {
  const path = plainPath(givenPath);
  const subject = `${what} in network namespace "${path}"`;
  switch (at.stage) {
    case ABI.AE_STAGE_OPEN: {
      const name = errnoName(at.errno);
      if (name === 'ENOENT' || name === 'ENOTDIR')
        return new NetnsError('missing', path, `${subject}: it does not exist`);
      return kernelError(`${subject}: open`, at.errno);
    }
    case ABI.AE_STAGE_PEER:
      return kernelError(`${subject}: the program that asked for it has ended`, at.errno);
    case ABI.AE_STAGE_NOT_NETNS:
      return new NetnsError('not-a-namespace', path, `${subject}: it is not a network namespace`);
    case ABI.AE_STAGE_FORBIDDEN:
      return new NetnsError('forbidden', path, `${subject}: it is the host's or this process's own`);
    case ABI.AE_STAGE_ENTER:
      return kernelError(`${subject}: enter`, at.errno);
    case ABI.AE_STAGE_SOCKET:
      return kernelError(`${subject}: open a netlink socket`, at.errno, missingModule(at.errno, 'nfnetlink'));
    case ABI.AE_STAGE_SEND:
      return kernelError(`${subject}: send`, at.errno);
    case ABI.AE_STAGE_RECEIVE:
      return kernelError(`${subject}: read the kernel's answer`, at.errno);
    default:
      return kernelError(subject, at.errno);
  }
}

const MISSING: ReadonlySet<string> = new Set(['ENOENT', 'EOPNOTSUPP', 'EAFNOSUPPORT', 'EPROTONOSUPPORT']);

/** `kernel lacks nft_redir`, where the errno is how a kernel without that module answers. */
export function missingModule(errno: number, module: string | undefined): string | undefined {
  return module !== undefined && MISSING.has(errnoName(errno)) ? `kernel lacks ${module}` : undefined;
}
