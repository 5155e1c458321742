"""A site whose data changes while it trains."""

import json
import os
import shutil

from cluster import TEXT, ClusterTest, main, wait_until


class ChangedDataTest(ClusterTest):
    def begin(self, *sets):
        for pool in ("site-a", "site-b"):
            folder = self.cluster.folder / pool
            folder.mkdir()
            shutil.copy(f"{TEXT}/GPL-3", folder / "text.txt")
            self.cluster.start_worker(pool, 1, "--data-dir", str(folder))
        self.assertEqual(self.cluster.submit(steps=1_000_000, text="text.txt", sets=sets).returncode, 0)
        self.cluster.wait_step(50)
        self.text = self.cluster.folder / "site-b" / "text.txt"

    def events(self, kind):
        events = json.loads(self.cluster.cli("events", "tiny", "-o", "json").stdout)["data"]
        return [event for event in events if event["kind"] == kind]

    def step_of(self, pool):
        return next((p["inner_step"] for p in self.cluster.job()["pools"] if p["pool"] == pool and p["live"]), 0)

    def expect_steps(self, pool, steps, seconds):
        begin = self.step_of(pool)
        wait_until(lambda: self.step_of(pool) >= begin + steps, seconds, f"{pool} to train")

    def test_a_pool_that_lost_data_is_set_aside_until_it_has_it_again(self):
        self.begin()
        whole = self.text.read_bytes()
        os.truncate(self.text, 2000)
        changed = []

        def told():
            changed[:] = [aside for aside in self.cluster.job()["set_aside"] if "has changed since it began" in aside["error"]["message"]]
            return changed

        # First it is set aside for the read that failed.
        wait_until(told, 60, "the pool to be set aside for its data")
        error = changed[0]["error"]
        self.assertEqual((changed[0]["pool"], error["fault_class"], error["field"]), ("site-b", "SITE_FAULT", "data.text"))
        self.assertIn(f"source 0 had {len(whole)} tokens and has 2000", error["message"])
        self.assertTrue(any("has changed since it began" in event["message"] for event in self.events("POOL_SET_ASIDE")))
        self.cluster.wait_log("site-b", "text.txt ends at byte 2000 now")
        self.expect_steps("site-a", 20, 60)
        self.text.write_bytes(whole)
        self.expect_steps("site-b", 20, 90)
        self.assertEqual(self.events("POOL_DATA_CHANGED"), [])
        self.assertEqual([w for w in self.cluster.job()["warnings"] if w.startswith("data: pool")], [])

    def test_a_pool_trains_on_other_data_where_the_spec_allows_it(self):
        self.begin("data.may_change=true")
        os.truncate(self.text, 20000)
        wait_until(lambda: self.events("POOL_DATA_CHANGED"), 60, "the change to be told")
        event = self.events("POOL_DATA_CHANGED")[0]
        self.assertEqual((event["pool"], event["severity"]), ("site-b", "WARNING"))
        self.assertIn("tokens and has 20000", event["message"])
        self.expect_steps("site-b", 20, 60)
        warnings = [w for w in self.cluster.job()["warnings"] if w.startswith("data: pool site-b restarted with other data")]
        self.assertEqual(len(warnings), 1)
        self.assertEqual(len(self.events("POOL_DATA_CHANGED")), 1)


if __name__ == "__main__":
    main()
