"""What runs at the server after the calibration: ask each site for the coverage on its held-out images."""

from nvflare.app_common.workflows.model_controller import ModelController

from fedconformal.nvflare import read_calibration


class Coverage(ModelController):
    """A workflow of one question, answered in client.py."""

    def run(self):
        """Ask, and print what each site saw."""
        calibration = read_calibration(self.get_run_dir())
        question = self.load_model()  # the trained one
        question.meta["threshold"] = calibration.threshold
        answers = self.send_model_and_wait(task_name="validate", data=question, timeout=120)
        results = sorted((answer.meta["client_name"], answer.metrics) for answer in answers)
        for site, seen in results:
            share, size = seen["covered"] / seen["images"], seen["digits"] / seen["images"]
            images = f"{seen['images']} held-out images"
            print(f"{site}: {share:.3f} of {images} covered, {size:.2f} digits per set", flush=True)
        images, covered = (sum(seen[what] for _, seen in results) for what in ("images", "covered"))
        print(f"all {images} held-out images: {covered / images:.3f} covered", flush=True)
