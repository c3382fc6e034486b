// Where a plugin under test finds its agent and keeps what it keeps.
import { join } from 'node:path';

/** Keys of the network configuration: nothing of the node's own is touched. */
export function pluginPlaces(dir: string) {
  return {
    agent_cni_path: join(dir, 'cni.sock'),
    admin_socket: join(dir, 'admin.sock'),
    netns_pin_dir: join(dir, 'pins'),
    delete_queue_dir: join(dir, 'queue'),
  };
}
