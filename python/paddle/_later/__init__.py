"""Names of Paddle 2.1 to 2.6 that packages import, composed from operators of 2.0; `_basics/later_names.py` lists them.

They follow the documentation of Paddle 2.6, with 2.0's shapes: a full reduction has shape [1], not [].
Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.6/api/index_en.html
"""
