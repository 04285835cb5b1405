"""Boxes and scores shared by the tests in this folder."""

import numpy as np

BOXES = np.array([[0.1, 0.1, 0.5, 0.6], [0.12, 0.1, 0.52, 0.58], [0.6, 0.55, 0.9, 0.95], [0.1, 0.5, 0.3, 0.9]])
OTHER = np.array([[0.2, 0.2, 0.4, 0.4], [0.2, 0.22, 0.41, 0.4], [0.5, 0.5, 0.6, 0.9], [0.0, 0.0, 1.0, 1.0]])
IMAGES = np.stack([BOXES, OTHER])
# Three classes of two images.
SCORES = np.array(
    [
        [[0.2, 0.9, 0.3, 0.6], [0.7, 0.8, 0.75, 0.1], [0.3, 0.2, 0.95, 0.9]],
        [[0.5, 0.4, 0.3, 0.2], [0.1, 0.1, 0.1, 0.1], [0.6, 0.65, 0.9, 0.3]],
    ]
)
OF_CLASSES = np.stack([BOXES, OTHER, BOXES], axis=1)
PIXELS = np.array([[2.0, 3.0, 12.0, 15.0], [3.0, 3.0, 12.0, 14.0], [20.0, 18.0, 30.0, 33.0]])
CORNERS = np.array([[[0.0, 0, 4, 0, 4, 4, 0, 4], [1, 0, 5, 1, 4, 5, 0, 4], [6, 6, 9, 6, 9, 9, 6, 9]]])
NMS = {"score_threshold": 0.25, "nms_top_k": 3, "nms_threshold": 0.5, "keep_top_k": 4}
# Keeps all boxes with a score above 0.
ALL = {"score_threshold": 0.0, "nms_top_k": -1, "keep_top_k": -1, "background_label": -1}
# No detection: a shape that differs from the declared one.
MARK = np.array([[-1.0]])
